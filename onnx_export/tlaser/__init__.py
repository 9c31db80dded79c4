"""T-LASER (section and equation numbers are its paper's): the translator, its training, its model folder."""
