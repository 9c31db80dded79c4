"""Retrievers and embeddings of LangChain, Haystack and LlamaIndex, each in the module of its project."""
