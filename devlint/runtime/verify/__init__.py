"""Claims about a program, checked by running it: a child process runs it under a tracer (`child`, `tracer`, `project`)
and writes down what was seen (`evidence`); each claim is then judged by it (`judge`).

A door hands in claims, fixed texts and blocks of pages as plain values; nothing here knows the engine. Only `tracer`
imports torch, in the child.
"""
