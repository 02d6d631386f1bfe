"""bin/report: results of bin/bench, bin/compare and bin/race as an HTML page and as SVG charts."""
