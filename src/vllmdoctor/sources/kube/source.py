"""A cluster's pods as a source: found, described, then their history, or what they show while watched."""

import re
from collections.abc import Iterator

from vllmdoctor.errors import SourceError, UsageError, VllmDoctorError
from vllmdoctor.kube import around, happened
from vllmdoctor.kube.answers import ORIGIN, Expired, Forbidden, gap_of
from vllmdoctor.kube.door import Door
from vllmdoctor.kube.find import Found, find
from vllmdoctor.kube.launches import Launches
from vllmdoctor.kube.names import parse
from vllmdoctor.kube.owners import kind_and_name, made_by
from vllmdoctor.kube.pods import Pod, trouble
from vllmdoctor.model import Event, Fact, Gap, Observation, Samples, Snapshot
from vllmdoctor.sources import Window
from vllmdoctor.sources.kube.history import from_prometheus
from vllmdoctor.sources.kube.logs import USUAL_S, is_thin, read_pod_log
from vllmdoctor.sources.kube.parallel import side_by_side
from vllmdoctor.sources.kube.scrape import Watch
from vllmdoctor.sources.strangers import is_vllm

_VERSION = "vllm_version"
_MOST_LOGS = 16
_NAMED = 3
_PORT = re.compile(r":\d+$")


def open_target(target: str) -> "KubernetesSource":
    """The Source for `k8s://NAMESPACE/KIND/NAME`."""
    return KubernetesSource(target)


class KubernetesSource:
    """The pods that one target names. A pod that cannot be read is a Gap, a cluster that cannot an error."""

    live = True
    beside = False

    def __init__(self, target: str) -> None:
        self._named = parse(target)

    def read(self, window: Window) -> Iterator[Observation]:
        """Yield what is known of the pods, then their history, or what they show in the window's time.

        VllmDoctorError where the target is not there, or none of its pods shows anything.
        """
        with Door(window.cluster.access) as door:
            yield from _Reading(door, find(door, self._named, window.cluster.container), window).all()


class _Reading:
    """One reading of one target."""

    def __init__(self, door: Door, found: Found, window: Window) -> None:
        self._door, self._found, self._window = door, found, window
        self._launches = Launches(door)
        self._versions: dict[str, Fact] = {}
        self._words: dict[str, str] = {}
        self._seen: set[str] = set()
        self._logged = False
        self._thin: dict[str, list[Samples]] = {}  # by pod: what its log tells, too little to stand beside

    def all(self) -> Iterator[Observation]:
        """Everything, in the order in which it matters."""
        found = self._found
        yield from found.gaps
        yield from self._described(found)
        yield from self._around(found)
        for observation in from_prometheus(self._door, found, self._window):
            if isinstance(observation, Samples) and is_vllm(observation.series):
                self._seen.add(observation.instance)
            yield observation
        known = tuple(p for p in found.pods if self._in_history(p))
        past = bool(known) and self._window.history.at is not None  # what pods show now is of another time
        rest = tuple(p for p in found.pods if p not in known and not past)
        watch = Watch(self._door, found, self._window, self._versions, self._described)
        statistics = self._with_statistics()
        yield from self._logs(statistics)
        yield from self._versions_of(watch, known)
        for observation in watch.read(rest):
            if isinstance(observation, Snapshot):
                self._seen.add(observation.instance)
            yield observation
        if not self._seen and not statistics:
            yield from self._logs(True)  # better than nothing
        for instance, samples in self._thin.items():
            if instance not in self._seen:
                self._logged = True
                yield from samples
        if not self._seen and not self._logged:
            raise self._blind([w.error for w in watch.all.values() if w.error is not None])

    def _in_history(self, pod: Pod) -> bool:
        """Whether a Prometheus told of the pod: by its name, with its namespace or a port where it must."""
        told = {_PORT.sub("", instance) for instance in self._seen}
        full = f"{pod.namespace}/{pod.name}"
        return any(each in (pod.name, full) or each.endswith(f"/{full}") for each in told)

    def _versions_of(self, watch: Watch, pods: tuple[Pod, ...]) -> Iterator[Observation]:
        """The version of pods that are not watched: what one server of each image says, else its tag."""
        by_image: dict[str, list[Pod]] = {}
        for pod in pods:
            by_image.setdefault(str(pod.spec.get("image")), []).append(pod)
        for same in by_image.values():
            asked = next((pod for pod in same if pod.runs), None)
            told = watch.version(asked) if asked else None
            for pod in same:
                if isinstance(told, Fact):
                    yield Fact(told.key, told.value, told.origin, pod.instance)
                elif pod.instance in self._versions:
                    yield self._versions[pod.instance]

    def _described(self, found: Found) -> Iterator[Observation]:
        """What the pods were started with and given, and what their status tells."""
        for pod in found.pods:
            owner = found.owner(pod)
            yield from around.of_pod(pod, owner)
            launch = self._launches.read(pod, owner)
            for fact in launch.facts:
                origin = kind_and_name(owner) if fact.key == "replicas" and owner else fact.origin
                own = Fact(fact.key, fact.value, origin, pod.instance)
                if fact.key == _VERSION:
                    self._versions[pod.instance] = own
                else:
                    yield own
            yield from happened.of_status(pod)
        yield from self._launches.gaps
        self._launches.gaps.clear()
        sick = [pod for pod in found.pods if not pod.runs][:_MOST_LOGS]
        for _, told in side_by_side(lambda pod: list(happened.last_words(self._door, pod)), sick):
            if isinstance(told, VllmDoctorError):
                raise told
            for observation in told:
                if isinstance(observation, Event):
                    self._words[observation.instance] = observation.text
                yield observation

    def _around(self, found: Found) -> Iterator[Observation]:
        yield from made_by(found.owners.values())
        yield from happened.of_cluster(self._door, found)
        yield from happened.of_rollouts(self._door, found)
        yield from around.of_workloads(self._door, found)
        yield from around.of_nodes(self._door, found)

    def _with_statistics(self) -> bool:
        """Whether the logs' statistics make a history: where it was asked for, or a lone pod has no other."""
        alone = len(self._found.pods) == 1 and not self._seen
        return alone or self._window.cluster.since_s is not None

    def _logs(self, statistics: bool) -> Iterator[Observation]:
        since_s = self._window.cluster.since_s
        pods = [pod for pod in self._found.pods if pod.runs]
        asked = pods if since_s is not None else pods[:_MOST_LOGS]

        def ask(pod: Pod) -> list[Observation]:
            return read_pod_log(self._door, pod, since_s or USUAL_S, statistics)

        told: set[str] = set()
        for pod, result in side_by_side(ask, asked, self._window.cluster.tell, "reading logs of pods"):
            if isinstance(result, Expired):
                raise result
            if isinstance(result, SourceError):
                gap = gap_of(
                    result, "what its log tells", ORIGIN if isinstance(result, Forbidden) else pod.instance
                )
                if gap.why not in told:
                    told.add(gap.why)
                    yield gap
            elif isinstance(result, VllmDoctorError):
                raise result
            else:
                if not result and since_s is not None:
                    why = f"it holds nothing of a vLLM server's in the last {since_s:.0f} s"
                    yield Gap(pod.instance, "what its log tells", why)
                thin = is_thin(result)
                for observation in result:
                    # what the server itself says at /version comes first
                    if isinstance(observation, Fact) and observation.key == _VERSION:
                        self._versions[pod.instance] = observation
                    elif thin and isinstance(observation, Samples):
                        self._thin.setdefault(pod.instance, []).append(observation)
                    else:
                        self._logged = self._logged or isinstance(observation, Samples)
                        yield observation
        if len(asked) < len(pods):
            why = f"the logs of {len(asked)} of {len(pods)} pods were read"
            yield Gap(ORIGIN, "what the other pods' logs tell", why, "--since 1h reads them all")

    def _said(self, pod: Pod) -> str:
        words = self._words.get(pod.instance, "")
        return f", and said: {words}" if words else ""

    def _blind(self, errors: list[SourceError]) -> VllmDoctorError:
        """The error that says why no pod shows anything: what ails the pods, else what failed in asking."""
        sick = [(pod, why) for pod in self._found.pods if (why := trouble(pod))]
        if errors and not (sick and len(sick) == len(self._found.pods)):
            return errors[0]
        if not sick:
            return UsageError("no pod is left to be read", hint="they were deleted meanwhile")
        told = "; ".join(f"{pod.name}: {why}{self._said(pod)}" for pod, why in sick[:_NAMED])
        more = f"; and {len(sick) - _NAMED} more" if len(sick) > _NAMED else ""
        pod = sick[0][0]
        hint = f"kubectl -n {pod.namespace} describe pod {pod.name}"
        return SourceError(f"no pod runs: {told}{more}", hint=hint)
