//go:build !race

package cost

const raceDetector = false
