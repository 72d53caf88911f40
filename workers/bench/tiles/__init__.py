"""Static tile survey: which tiles of a FlashInfer version compile and fit, found without a GPU."""
