"""The durable books: the file and its log, accounts and entries, and the rules by which a debit is admitted."""
