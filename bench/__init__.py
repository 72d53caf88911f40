"""Performance of Tilewatch itself, and the generator of the data that it is measured on."""
