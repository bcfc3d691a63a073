"""A doctor for vLLM servers whose throughput declines."""

__version__ = "0.1.0"
