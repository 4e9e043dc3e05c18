#!/usr/bin/env bash
# The path of the entry point in Bitnami's image; the started script reads its variables
exec "$@"
