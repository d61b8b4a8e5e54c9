"""Pure readers of what NVIDIA's tools and drivers say: a value, or unknown with a reason; none of them raises."""
