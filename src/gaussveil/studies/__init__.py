"""The papers' experiments and every refutation, each a module with functions and `main(data=None, out=None)`."""
