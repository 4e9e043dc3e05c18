#!/usr/bin/env bash
exec python /opt/pybroker/entrypoint.py run
