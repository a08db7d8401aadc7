package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
)

//go:embed assets
var assetFiles embed.FS

// assetsPath is where scripts and styles are.
const assetsPath = "assets/"

// assetURLs are the relative URLs of the assets by the names of their files: a changed file has another one, so that
// browsers may keep them for ever. assets are the files by the last part of these URLs.
var assetURLs, assets = loadAssets()

func loadAssets() (urls map[string]string, files map[string][]byte) {
	urls, files = make(map[string]string), make(map[string][]byte)
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		text, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		end := path.Ext(e.Name())
		hashed := strings.TrimSuffix(e.Name(), end) + "." + hex.EncodeToString(sum[:5]) + end
		urls[e.Name()], files[hashed] = assetsPath+hashed, text
	}
	return urls, files
}

// contentTypes are the types of the files, whatever the tables of the machine say.
var contentTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// serveAsset serves a file of the pages. It is the same for everybody.
func serveAsset(w http.ResponseWriter, r *http.Request, file string) {
	text, ok := assets[file]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentTypes[path.Ext(file)])
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // a browser that has gone needs no answer
	}
}
