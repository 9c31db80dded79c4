"""The papers' tables, computed from a checkout: ``python -m papers``. No package of Dragoman's knows this one."""
