"""What a release promises, in a file that anyone can recompute: certificates, keys, verification."""
