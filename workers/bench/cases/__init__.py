"""What can be measured: one frozen dataclass a kind, with its canonical parameters and its compulsory work.

Standard library only: the control plane reads them as well as the benches. `parse` turns words and JSON
into cases.
"""
