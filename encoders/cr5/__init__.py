"""Cr5: bags of words of many languages → one space, by reduced-rank ridge regression (Josifoski et al., WSDM 2019)."""
