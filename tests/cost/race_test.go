//go:build race

package cost

// raceDetector tells that the race detector is on: it has pools forget a part
// of what they hold.
const raceDetector = true
