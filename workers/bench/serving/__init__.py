"""A server of a model under load, by NVIDIA's AIPerf in its own environment.

`endpoint` says what is measured, `probe` asks the server for its versions, `plan` says what AIPerf is to do,
`run` runs it, `read` turns its records into what the document holds.
"""
