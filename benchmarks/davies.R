# Davies' method (mgcv::psum.chisq; arguments: repeats, tolerance), CPU seconds measured inside R.
# stdin: one line per tail, "threshold sigma weights... noncentralities..."; stdout: the tails (NA where it refuses), seconds, version.
suppressMessages(library(mgcv))
repeats <- as.integer(commandArgs(trailingOnly = TRUE)[1])
tolerance <- as.numeric(commandArgs(trailingOnly = TRUE)[2])
forms <- lapply(strsplit(readLines(file("stdin")), " "), function(row) {
  x <- as.numeric(row)
  n <- (length(x) - 2) / 2
  list(q = x[1], lb = x[2 + seq_len(n)], df = rep(1, n), nc = x[2 + n + seq_len(n)], sigz = x[2])
})
tail_of <- function(f) {
  psum.chisq(f$q, lb = f$lb, df = f$df, nc = f$nc, sigz = f$sigz, lower.tail = FALSE, tol = tolerance, nlim = 1e6)
}
# Without weights there is nothing for Davies to do, and where he gives up psum.chisq warns and returns an approximation.
refusing <- function(f) {
  if (length(f$lb) == 0) return(NA)
  tryCatch(tail_of(f), warning = function(w) NA, error = function(e) NA)
}
for (f in forms) cat(format(refusing(f), digits = 17), "\n")
# R's clock ticks in milliseconds: repeat until seconds have passed.
timed <- Filter(function(f) length(f$lb) > 0, forms)
spent <- 0
runs <- 0
while (runs < repeats || (repeats > 1 && spent < 2)) {
  took <- system.time(for (f in timed) suppressWarnings(try(tail_of(f), silent = TRUE)))
  spent <- spent + sum(took[c("user.self", "sys.self")])
  runs <- runs + 1
}
cat("seconds", spent / runs, "\n")
cat("version", as.character(packageVersion("mgcv")), "\n")
