#!/usr/bin/env bash
# Where Bitnami's image has its entry point: its variables are understood by what is run
exec "$@"
