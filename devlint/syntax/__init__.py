"""Everything that touches LibCST: the guarded parse, the read-only walk, the pairing with `ast`, names."""
