"""What msdump upgrade says of environments that differ in one known way, and of releases of real runtimes."""
