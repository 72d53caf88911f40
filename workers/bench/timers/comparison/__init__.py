"""How far our timers lie from kernel time, beside FlashInfer's and Triton's. Runs alone, with torch."""
