"""Generated from proto/etcd by proto/etcd/generate."""
