#!/usr/bin/env bash
# Davies' method comes from R's mgcv (Debian: r-cran-mgcv). Install it where we may; elsewhere the benchmark takes his C
# code from fastlmmclib, and the study of peers says "absent".
set -euo pipefail

if command -v Rscript >/dev/null && Rscript -e 'library(mgcv)' >/dev/null 2>&1; then
  echo "R mgcv: found"
elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get install -y --no-install-recommends r-cran-mgcv >/dev/null ||
    { apt-get update >/dev/null && apt-get install -y --no-install-recommends r-cran-mgcv >/dev/null; }
  echo "R mgcv: installed"
else
  echo "R mgcv: absent (Debian, Ubuntu: apt-get install r-cran-mgcv); the benchmark measures fastlmmclib instead"
fi
