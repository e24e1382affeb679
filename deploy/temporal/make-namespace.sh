#!/bin/sh
# The namespace of the service, with what it remembers of workflows that have ended kept for a month.
set -eu
temporal operator namespace describe -n compiler-agent --address temporal:7233 \
  || temporal operator namespace create -n compiler-agent --retention 30d --address temporal:7233
