"""The adversary: random configurations against dense references and laws, hostile inputs, damaged files."""
