"""`devlint verify`: what devlint says of a program, checked by running it.

This is the door between the engine, which reads, and `devlint.runtime`, which runs: findings, fixed texts and blocks of
pages go over as plain values, and what was seen comes back.
"""
