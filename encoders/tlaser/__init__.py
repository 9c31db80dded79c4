"""T-LASER, cT-LASER and LASER: sentence encoders learnt by translating into two pivot languages (Li and Mak 2020)."""
