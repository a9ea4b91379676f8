"""The tables of the vendor, with its titles and order."""
