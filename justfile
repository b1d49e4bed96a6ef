# The same names as `cargo xtask`; `just` alone lists them.

_default:
    @just --list

# Install what the other recipes need on this machine
setup:
    cargo xtask setup

# Build both charms and juju-local into dist/
pack *arguments:
    cargo xtask pack {{arguments}}

# Deploy a controller and two nodes on juju-local and run a job (`just demo --rm` takes it down)
demo *arguments:
    cargo xtask demo {{arguments}}

# Run all tests, or one tier: unit, process, cluster, conformance
test *arguments:
    cargo xtask test {{arguments}}

# Formatting, lints, rules of the source tree
tidy:
    cargo xtask tidy

# Measure juju-local beside its goals, and write docs/bench/
bench:
    cargo xtask bench

# Exactly what CI runs
check:
    .ci/run

# Rewrite the formatting
format:
    cargo fmt --all
