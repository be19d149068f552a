package api

import (
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/page"
	"ajo/internal/secret"
	"ajo/internal/tenant"
)

// listKeys is GET /auth/keys, an addition.
func (e *edge) listKeys(c *fiber.Ctx) error {
	return answerPage(c, "keys", func(r page.Request) ([]tenant.KeyRecord, page.Info, error) {
		return e.Tenants.Keys(c.UserContext(), caller(c).ID, r)
	})
}

// shownKey is the answer with a new key, which is shown only once.
type shownKey struct {
	APIKey  string           `json:"apiKey"`
	Warning string           `json:"warning"`
	Key     tenant.KeyRecord `json:"key"`
}

// createKey is POST /auth/keys, an addition. For a key that moves money the owner shows again who
// is there: it would pay without that, and also when the session has ended.
func (e *edge) createKey(c *fiber.Ctx) error {
	in := readBody(c)
	n := tenant.NewKey{Name: in.text("name"), Scopes: in.texts("scopes"), Networks: in.texts("networks"), ExpiresAt: in.time("expiresAt")}
	if err := in.err(); err != nil {
		return err
	}
	if n.MovesMoney() && caller(c).Member.Role == tenant.Owner { // others may not make it
		if _, err := e.prove(c, in); err != nil {
			return err
		}
	}
	key, record, err := e.Tenants.CreateKey(c.UserContext(), caller(c).ID, caller(c).Member, n, e.acting(c))
	return answerKey(c.Status(http.StatusCreated), key, record, err)
}

// rotateOneKey is POST /auth/keys/:id/rotate, an addition. The overlap is in seconds. The owner
// shows again who is there, as for a new key.
func (e *edge) rotateOneKey(c *fiber.Ctx) error {
	in := readBody(c)
	overlap := in.whole("overlap", int(tenant.MaxOverlap/time.Second))
	if err := in.err(); err != nil {
		return err
	}
	if caller(c).Member.Role == tenant.Owner { // others may not rotate one that moves money
		k, err := e.Tenants.Key(c.UserContext(), caller(c).ID, pathID(c))
		if err == nil && k.MovesMoney() {
			_, err = e.prove(c, in)
		}
		if err != nil {
			return err
		}
	}
	key, record, err := e.Tenants.RotateOne(c.UserContext(), caller(c).ID, caller(c).Member, pathID(c), time.Duration(overlap)*time.Second, e.acting(c))
	return answerKey(c, key, record, err)
}

func answerKey(c *fiber.Ctx, key secret.APIKey, record tenant.KeyRecord, err error) error {
	return answer(c, shownKey{key.Reveal(), tenant.KeyWarning, record}, err)
}

// revokeKey is POST /auth/keys/:id/revoke, an addition. It reads no body.
func (e *edge) revokeKey(c *fiber.Ctx) error {
	k, err := e.Tenants.RevokeKey(c.UserContext(), caller(c).ID, pathID(c), e.acting(c))
	return answer(c, k, err)
}
