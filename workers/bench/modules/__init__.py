"""FlashInfer's JIT modules, built ahead and without a GPU by the environment's own Python.

What a release compiles at its first call is compiled here, measured (CPU time, size), and put where the
release looks before it compiles: `flashinfer/data/aot/`.
"""
