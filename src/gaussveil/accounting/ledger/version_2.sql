CREATE TABLE accounts (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  dataset TEXT NOT NULL,
  adjacency TEXT,
  epsilon REAL NOT NULL,
  delta REAL NOT NULL,
  sampler_share REAL NOT NULL,
  rule TEXT NOT NULL CHECK (rule IN ('planned', 'adaptive')),
  chosen_filter TEXT NOT NULL CHECK (chosen_filter IN ('auto', 'mean-shift', 'renyi')),
  active_filter TEXT CHECK (active_filter IN ('mean-shift', 'renyi', 'single')),
  chosen_order REAL,
  active_order REAL,
  opened_at TEXT NOT NULL
) STRICT;
CREATE TABLE charges (
  digest TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
CREATE TABLE plan (
  account INTEGER NOT NULL REFERENCES accounts (id),
  charge TEXT NOT NULL REFERENCES charges (digest),
  count INTEGER NOT NULL CHECK (count > 0),
  PRIMARY KEY (account, charge)
) STRICT;
CREATE TABLE entries (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  account INTEGER NOT NULL REFERENCES accounts (id),
  charge TEXT NOT NULL REFERENCES charges (digest),
  slot TEXT,
  state TEXT NOT NULL CHECK (state IN ('debited', 'drawing', 'released', 'void')),
  guarantee TEXT NOT NULL CHECK (guarantee IN ('worst case', 'model-based', 'none')),
  what TEXT NOT NULL,
  debited_at TEXT NOT NULL
) STRICT;
CREATE INDEX entries_folded ON entries (account, charge, slot, state, guarantee);
CREATE TABLE events (
  seq INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  account TEXT NOT NULL,
  entry TEXT NOT NULL,
  event TEXT NOT NULL,
  detail TEXT NOT NULL,
  chain TEXT NOT NULL
) STRICT;
