"""Maps between spaces of vectors, learnt from documents that are aligned: LCA, LCC and NCA (Tashu et al. 2024)."""
