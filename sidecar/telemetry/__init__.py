"""What the sidecar says about itself: log events, and metrics.

`catalogue` names every metric once; `metrics` counts and exposes them; `log` writes lines;
`recorder` turns each of the engine's facts into both.
"""
