"""Labels of ``vllm:cache_config_info``, which change with almost every version."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllmdoctor.simulator.setup import Setup


def cache_config_labels(setup: Setup) -> dict[str, str]:
    """The labels a version shows, as strings (``"None"`` and ``"True"`` included)."""
    server, version = setup.server, setup.era.version
    # V1 of 0.8 logs this metric before the engine has told how many blocks there are; later it is
    # the sum over the engines, repeated for each.
    blocks = str(server.num_gpu_blocks * setup.engines)
    if (0, 8, 0) <= version < (0, 9, 0):
        blocks = "None"
    labels = {
        "block_size": str(server.block_size),
        "cache_dtype": "auto",
        "enable_prefix_caching": str(server.enable_prefix_caching),
        "gpu_memory_utilization": str(server.gpu_memory_utilization),
        "is_attention_free": "False",
        "num_cpu_blocks": "None",
        "num_gpu_blocks": blocks,
        "num_gpu_blocks_override": "None",
        "sliding_window": "None",
    }
    if version < (0, 18, 0):
        labels |= {"swap_space": "4", "cpu_offload_gb": "0"}
    if version >= (0, 8, 3):
        labels["prefix_caching_hash_algo"] = "sha256" if version >= (0, 10, 2) else "builtin"
    if version >= (0, 12, 0):
        labels |= {
            "kv_cache_memory_bytes": "None",
            "kv_sharing_fast_prefill": "False",
            "mamba_block_size": "None",
            "mamba_cache_dtype": "auto",
            "mamba_ssm_cache_dtype": "auto",
            "user_specified_block_size": "False",
        }
    if version >= (0, 24, 0):
        tokens = server.kv_tokens
        labels |= {
            "_block_size_resolved": "True",
            "kv_cache_max_concurrency": str(tokens / server.max_model_len),
            "kv_cache_size_tokens": str(tokens),
            "mamba_cache_mode": "none",
        }
    return labels
