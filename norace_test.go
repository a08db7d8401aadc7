//go:build !race

package mortise_test

const raceDetector = false
