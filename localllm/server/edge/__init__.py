"""The connection, before any API: sockets, limits, TLS, the gate for hosts, origins and keys, the log.

Knows no endpoint's meaning. Begin with `gate`."""
