module pybroker/bench/load

go 1.22
