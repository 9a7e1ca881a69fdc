CREATE TABLE draws (
  entry TEXT NOT NULL REFERENCES entries (id),
  account INTEGER NOT NULL REFERENCES accounts (id),
  identity TEXT NOT NULL,
  PRIMARY KEY (entry, identity)
) STRICT;
CREATE INDEX draws_known ON draws (account, identity);
CREATE TABLE keys (
  purpose TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT;
CREATE TABLE balances (
  account INTEGER PRIMARY KEY REFERENCES accounts (id),
  changes INTEGER NOT NULL,
  used BLOB
) STRICT;
INSERT INTO balances SELECT id, 0, NULL FROM accounts;
ALTER TABLE plan ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
UPDATE plan SET used = (
  SELECT COUNT(*) FROM entries e WHERE e.account = plan.account AND e.slot = plan.charge AND e.state <> 'void'
);
ALTER TABLE events ADD COLUMN account_state TEXT NOT NULL DEFAULT '';
CREATE INDEX events_of_account ON events (account);
CREATE INDEX events_of_entry ON events (entry)
