package wire

// Build identifies the build that agent and tolbooth-jail come from, set by -ldflags "-X". The two must be the same:
// messages have no compatibility between builds.
var Build = "dev"
