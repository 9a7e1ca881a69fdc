"""The command line: it reads files, asks the library, prints. No formula lives here."""
