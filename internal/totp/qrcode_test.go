package totp

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
)

// The longest name and address there may be still make a picture, within the API's bound. That it
// is read as what it says is tried in a browser (dashboard/web/access.js).
func TestQRCodeOfTheLongestName(t *testing.T) {
	t.Parallel()
	link := URL(strings.Repeat("\U00020000", 200), strings.Repeat("a", 242)+"@shop.example", secret.Redact(strings.Repeat("A", 32)))
	require.Equal(t, 2*maxIssuer, strings.Count(link.Reveal(), "%F0%A0%80%80"))
	text, err := qrCode(link.Reveal())
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), 32768)
	raw, ok := strings.CutPrefix(text, "data:image/png;base64,")
	require.True(t, ok)
	body, err := base64.StdEncoding.DecodeString(raw)
	require.NoError(t, err)
	picture, err := png.Decode(bytes.NewReader(body))
	require.NoError(t, err)
	side := picture.Bounds().Dx()
	require.Equal(t, side, picture.Bounds().Dy())
	require.LessOrEqual(t, side, (137+2*quietZone)*moduleSize, "a camera must read it")
}
