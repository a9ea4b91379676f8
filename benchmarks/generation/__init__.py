"""Whether two decoders are called the same where they are, and other ones where one line is wrong."""
