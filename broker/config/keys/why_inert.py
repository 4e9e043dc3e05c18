"""Why a key which is accepted has no effect here: one sentence for each kind of key."""

NO_ZOOKEEPER = "there is no ZooKeeper; metadata is kept in __cluster_metadata"
ONE_REPLICA = "a partition has one replica, which is always in sync and leads"
NOT_TIERED = "there is no tiered storage"
OWN_CONTROLLER = "the broker is its own controller; nothing goes over the network between the two"
NO_OTHER_BROKERS = "this broker makes no connections to other brokers"
NO_JVM = "it belongs to the Java virtual machine, which is not there"
NO_SUCH_THREADS = "one event loop does this work; there is no such pool of threads"
