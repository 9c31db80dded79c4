"""Document alignment: pairs of two languages one to one, by margin; the collections of the LAWDR paper."""
