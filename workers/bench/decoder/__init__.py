"""A decoder of mixture-of-experts models with random weights, to be measured step by step."""
