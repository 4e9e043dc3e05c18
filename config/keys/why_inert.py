"""Why an accepted key has no effect: one sentence for each kind of key."""

NO_ZOOKEEPER = "metadata is stored in __cluster_metadata, not in ZooKeeper"
ONE_REPLICA = "partitions have one replica"
NO_LATE_FOLLOWERS = "a new follower begins at the first offset that its leader has on disk"
NEVER_GIVES_UP = "the broker serves its local records until the topic can be created"
RETRIES_EACH_SECOND = "a failed creation of the topic is tried again after a second"
READS_OWN_LOG = "a record counts as soon as it is written"
NO_TOPIC_CLIENTS = "no client is needed for __remote_log_metadata"
NO_JAVA_CLASSES = "Java classes are not loaded"
OWN_CONTROLLER = "the broker is its own controller"
NO_OTHER_BROKERS = "the broker does not connect to other brokers"
NO_JVM = "it configures the Java virtual machine"
NO_LINGER = "each decision is written at once, in its own batch"
NO_WRITE_BUFFER = "write buffers are not reused"
NOTHING_TO_PURGE = "an answered request leaves the purgatory at once"
NO_JAVA_PERSISTER = "the state of share groups is always stored in __share_group_state"
NO_SUCH_THREADS = "one event loop does this work"
NO_KERBEROS = "Kerberos is not supported"
NO_WARMUP = "no assignor hands out warm-up tasks, as in Apache Kafka 4.4"
NO_OTHER_NODES = "a start waits for no other node"
FOR_CONTROLLERS = "it is for the controllers of a cluster, whose own files have it"
ACTIVE_CONTROLLER = "only the controller of a cluster uses it (process.roles=controller)"
NO_OWN_LOGINS = "the broker logs in at no other node"
NO_ASSERTIONS = "a provider grants tokens to a client id and its secret only"
ALL_METRICS = "all metrics are recorded"
NO_SAMPLES = "metrics are totals, from which the reader computes rates"
NO_EVENT_TIMES = "durations of metadata events are not measured"
NO_OTHER_LEVELS = "no feature has a level that is not final"
#: Reasons of a node that is its own controller. In a member of a cluster (process.roles=broker) these keys have effect.
OF_ONE_NODE = frozenset({ONE_REPLICA, OWN_CONTROLLER, NO_OTHER_BROKERS, NO_OTHER_NODES, NO_OWN_LOGINS})


def why_inert(reason: str, *, is_member: bool, is_controller: bool = False) -> str:
    """Return why a key with this reason has no effect; "" if it has.

    Without a role of a cluster, the node is alone. A controller warns of no key of members: both may share a file.
    """
    if is_controller and reason == ACTIVE_CONTROLLER:
        return ""
    return "" if (is_member or is_controller) and reason in OF_ONE_NODE else reason
