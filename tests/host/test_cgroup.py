"""Control groups as real machines show them: version 1 and 2, inside of a container and outside."""

from pathlib import Path

import pytest

from vllmdoctor.sources.host_cgroup import find

GIB = 2.0**30
POD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod8e1f.slice/cri-containerd-5ac0.scope"
V2_MEMORY_STAT = """anon 9124311040
file 21474836480
kernel 182452224
kernel_stack 5226496
pagetables 44281856
shmem 2147483648
file_mapped 2684354560
file_dirty 0
swapcached 0
inactive_anon 9663676416
active_anon 1610612736
inactive_file 17179869184
active_file 2147483648
unevictable 0
workingset_refault_anon 0
pgfault 88211034
pgmajfault 2155
"""
V2_MEMORY_EVENTS = "low 0\nhigh 0\nmax 1841\noom 2\noom_kill 2\noom_group_kill 0\n"
V2_CPU_STAT = """usage_usec 912345678901
user_usec 800000000000
system_usec 112345678901
core_sched.force_idle_usec 0
nr_periods 84211
nr_throttled 31007
throttled_usec 5123456789
nr_bursts 0
burst_usec 0
"""
V1_MEMORY_STAT = """cache 5242880
rss 13271040
inactive_file 143360
active_file 221184
hierarchical_memory_limit 34359738368
hierarchical_memsw_limit 9223372036854771712
total_cache 5262307328
total_rss 9124311040
total_rss_huge 4194304
total_shmem 9089024
total_mapped_file 130215936
total_swap 0
total_pgmajfault 1100
total_inactive_anon 498393088
total_active_anon 1089536
total_inactive_file 3328278528
total_active_file 1924939776
total_unevictable 20807680
"""


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def told(root: Path, pid: int = 42) -> dict[str, float]:
    group = find(pid, root)
    assert group is not None
    return {key.removeprefix("host:cgroup_"): value for key, value in group.read().items()}


def version_2(group: str, limit: str = "34359738368\n", quota: str = "800000 100000\n") -> dict[str, str]:
    place = f"sys/fs/cgroup/{group}" if group else "sys/fs/cgroup"
    return {
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
        f"{place}/cgroup.controllers": "cpuset cpu io memory pids\n",
        f"{place}/memory.current": "30064771072\n",
        f"{place}/memory.max": limit,
        f"{place}/memory.stat": V2_MEMORY_STAT,
        f"{place}/memory.events": V2_MEMORY_EVENTS,
        f"{place}/memory.swap.current": "0\n",
        f"{place}/cpu.stat": V2_CPU_STAT,
        f"{place}/cpu.max": quota,
    }


WANTED_2 = {
    "memory_bytes": 28 * GIB,
    "memory_working_set_bytes": 12 * GIB,  # without the page cache that can be dropped
    "memory_limit_bytes": 32 * GIB,
    "memory_anonymous_bytes": 9124311040.0,
    "memory_shared_bytes": 2 * GIB,
    "swap_bytes": 0.0,
    "oom_kills_total": 2.0,
    "memory_limit_hits_total": 1841.0,
    "cpu_seconds_total": pytest.approx(912345.678901),
    "cpu_periods_total": 84211.0,
    "cpu_throttled_periods_total": 31007.0,
    "cpu_throttled_seconds_total": pytest.approx(5123.456789),
    "cpu_limit_cores": 8.0,
}


@pytest.mark.parametrize("path", [f"0::/{POD}\n", "0::/\n"], ids=["from the node", "inside of the container"])
def test_version_2_is_read_from_the_node_and_from_inside(tmp_path: Path, path: str) -> None:
    group = POD if POD in path else ""
    root = lay_out(tmp_path, {"proc/42/cgroup": path, **version_2(group)})

    assert told(root) == WANTED_2


def test_no_limit_is_no_series(tmp_path: Path) -> None:
    root = lay_out(tmp_path, {"proc/42/cgroup": "0::/\n", **version_2("", "max\n", "max 100000\n")})

    assert {"memory_limit_bytes", "cpu_limit_cores"} & set(told(root)) == set()


def test_a_limit_of_the_pod_above_the_container_counts(tmp_path: Path) -> None:
    files = {"proc/42/cgroup": "0::/pod/container\n", **version_2("pod/container", "max\n")}
    files |= {
        "sys/fs/cgroup/pod/cgroup.controllers": "memory\n",
        "sys/fs/cgroup/pod/memory.max": "17179869184\n",
    }

    assert told(lay_out(tmp_path, files))["memory_limit_bytes"] == 16 * GIB


def version_1(group: str) -> dict[str, str]:
    memory, cpu, account = (
        f"sys/fs/cgroup/{name}/{group}".rstrip("/") for name in ("memory", "cpu", "cpuacct")
    )
    return {
        f"{memory}/memory.usage_in_bytes": "12884901888\n",
        f"{memory}/memory.limit_in_bytes": "34359738368\n",
        f"{memory}/memory.stat": V1_MEMORY_STAT,
        f"{memory}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        f"{memory}/memory.failcnt": "77\n",
        f"{cpu}/cpu.stat": "nr_periods 1000\nnr_throttled 250\nthrottled_time 60000000000\n",
        f"{cpu}/cpu.cfs_quota_us": "400000\n",
        f"{cpu}/cpu.cfs_period_us": "100000\n",
        f"{account}/cpuacct.usage": "7200000000000\n",
    }


V1_LINES = "12:pids:{0}\n9:memory:{0}\n5:cpu,cpuacct:{0}\n3:cpuset:/\n1:name=systemd:{0}\n0::/\n"


@pytest.mark.parametrize("group", ["docker/5ac0", ""], ids=["from the node", "inside of the container"])
def test_version_1_is_read_from_the_node_and_from_inside(tmp_path: Path, group: str) -> None:
    files = {"proc/42/cgroup": V1_LINES.format("/docker/5ac0"), **version_1(group)}

    assert told(lay_out(tmp_path, files)) == {
        "memory_bytes": 12 * GIB,
        "memory_working_set_bytes": 12 * GIB - 3328278528,
        "memory_limit_bytes": 32 * GIB,
        "memory_anonymous_bytes": 9124311040.0,
        "memory_shared_bytes": 9089024.0,
        "swap_bytes": 0.0,
        "oom_kills_total": 3.0,
        "memory_limit_hits_total": 77.0,
        "cpu_seconds_total": 7200.0,
        "cpu_periods_total": 1000.0,
        "cpu_throttled_periods_total": 250.0,
        "cpu_throttled_seconds_total": pytest.approx(60.0),
        "cpu_limit_cores": 4.0,
    }


def test_the_whole_machines_group_is_nobodys_limit(tmp_path: Path) -> None:
    files = {"proc/42/cgroup": V1_LINES.format("/"), **version_1("")}
    files["sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n"

    values = told(lay_out(tmp_path, files))

    assert not any(name.startswith("memory") for name in values)
    assert values["cpu_periods_total"] == 1000.0


def test_without_any_control_group_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert find(42, lay_out(tmp_path, {"proc/41/cgroup": "0::/\n"})) is None
    assert find(42, lay_out(tmp_path, {"proc/42/cgroup": "0::/\n"})) is None


def test_files_that_are_broken_are_left_out(tmp_path: Path) -> None:
    files = {"proc/42/cgroup": "0::/\n", **version_2("")}
    files |= {"sys/fs/cgroup/memory.current": "much\n", "sys/fs/cgroup/cpu.stat": "nr_periods\n"}

    values = told(lay_out(tmp_path, files))

    assert "memory_bytes" not in values
    assert "cpu_periods_total" not in values
    assert values["oom_kills_total"] == 2.0
