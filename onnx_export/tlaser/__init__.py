"""T-LASER (its paper's sections): the translator, its training, its folder."""
