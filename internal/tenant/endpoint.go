package tenant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/webhook"
)

// Endpoint is one more URL of a tenant's, beside its webhook URL, to which events are sent: those
// of the types and accounts that it wants, signed with its own secret. Field names and casing are
// the wire's.
type Endpoint struct {
	ID          uuid.UUID      `json:"id"`
	URL         string         `json:"url"`
	Events      []webhook.Type `json:"events"`
	AccountRefs []string       `json:"accountRefs"` // nil: all accounts
	Retries     string         `json:"retries"`     // standard or day
	PausedAt    *time.Time     `json:"pausedAt"`    // nil: its deliveries are sent
	// until when the secret before this one signs too; nil: it does not
	PreviousSecretUntil *time.Time `json:"previousSecretUntil"`
	CreatedAt           time.Time  `json:"createdAt"`
	UpdatedAt           time.Time  `json:"updatedAt"`
}

// EndpointChange is what to set of an endpoint; what is nil stays.
type EndpointChange struct {
	URL         *string
	Events      []webhook.Type // of a new endpoint nil: all
	AccountRefs *[]string      // a nil list: all accounts
	Retries     *string        // of a new endpoint nil: standard
	Paused      *bool
}

// maxEndpoints is how many a tenant may have beside its webhook URL; maxEndpointAccounts, how many
// accounts an endpoint may name.
const (
	maxEndpoints        = 20
	maxEndpointAccounts = 100
)

// Refusals of an endpoint; of its URL as [safehttp.CheckURL].
var (
	ErrEndpointNotFound = webhook.ErrEndpointNotFound
	errEndpoints        = errs.New(errs.Conflict, fmt.Sprintf("a tenant has at most %d webhook endpoints: remove one first", maxEndpoints))
	errEndpointURL      = errs.New(errs.Conflict, "there is already an endpoint with this url")
	errEndpointEvents   = errs.New(errs.Invalid, "events must name at least one event")
	errEndpointAccounts = errs.New(errs.Invalid, fmt.Sprintf("accountRefs must name 1 to %d accounts, or be null for all", maxEndpointAccounts))
	errEndpointAccount  = errs.New(errs.Invalid, "accountRefs names an account that does not exist")
	errEndpointRetries  = errs.New(errs.Invalid, "retries must be standard or day")
	errEndpointRotated  = errs.New(errs.Conflict, "the secret was rotated less than 24 hours ago, and the one before it still signs: replace=true replaces the newer one")
	errEndpointChanged  = errs.New(errs.Conflict, "the webhook endpoint has changed since updatedAt: read it again")
	errEndpointEmpty    = errs.New(errs.Invalid, "no fields to update")
)

const endpointColumns = `id, url, events, account_refs, retries, paused_at, CASE WHEN secret_previous_until > $1 THEN secret_previous_until END, created_at, updated_at`

func readEndpoint(row pgx.CollectableRow) (Endpoint, error) {
	e, err := pgx.RowToStructByPos[Endpoint](row)
	e.CreatedAt, e.UpdatedAt = e.CreatedAt.UTC(), e.UpdatedAt.UTC()
	for _, t := range []*time.Time{e.PausedAt, e.PreviousSecretUntil} {
		if t != nil {
			*t = t.UTC()
		}
	}
	return e, err
}

// Endpoints lists the tenant's, the oldest first.
func (s *Service) Endpoints(ctx context.Context, id uuid.UUID) ([]Endpoint, error) {
	return pg.Collect(ctx, s.Pool, readEndpoint, `
		SELECT `+endpointColumns+` FROM webhook_endpoints WHERE tenant_id = $2 AND removed_at IS NULL ORDER BY id`, s.Clock.Now(), id)
}

// AddEndpoint makes an endpoint, and returns it with its secret, which is shown only here. Events
// of before are not sent to it. The owner gets an e-mail.
func (s *Service) AddEndpoint(ctx context.Context, id uuid.UUID, c EndpointChange, by audit.By) (Endpoint, secret.Redacted, error) {
	if c.URL == nil {
		return Endpoint{}, secret.Redacted{}, errURLMissing
	}
	if c.Events == nil {
		c.Events = webhook.Types
	}
	if err := s.checkEndpoint(&c); err != nil {
		return Endpoint{}, secret.Redacted{}, err
	}
	var e Endpoint
	var email string
	fresh := secret.NewSigningSecret()
	err := s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) (err error) {
		if email = t.Email; t.endpoints >= maxEndpoints {
			return errEndpoints
		}
		if err := checkTarget(ctx, tx, id, c); err != nil {
			return err
		}
		endpoint := uuid.Must(uuid.NewV7())
		var refs []string
		if c.AccountRefs != nil {
			refs = *c.AccountRefs
		}
		e, err = pg.One(ctx, tx, readEndpoint, ErrEndpointNotFound, `
			INSERT INTO webhook_endpoints (id, tenant_id, url, events, account_refs, secret, paused_at, retries, created_at, updated_at)
			VALUES ($2, $3, $4, $5, $6, $7, CASE WHEN $8 THEN $1::timestamptz END, coalesce($9, 'standard'), $1, $1) RETURNING `+endpointColumns,
			now, endpoint, id, *c.URL, c.Events, refs, s.Box.Seal(endpointSecret(endpoint), []byte(fresh.Reveal())), c.Paused != nil && *c.Paused, c.Retries)
		if err != nil {
			return endpointRefusal(err)
		}
		if _, err := tx.Exec(ctx, `UPDATE tenants SET webhook_endpoints = webhook_endpoints + 1, updated_at = $2 WHERE id = $1`, id, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("webhook.endpoint.add", "webhook_endpoint:"+endpoint.String(), shownEndpoint(e)).Of(id))
	})
	if err == nil {
		s.mails.send(endpointEmail(email, safehttp.Shown(e.URL), by))
	}
	return e, fresh, err
}

// ChangeEndpoint sets what is named. What waits to be sent goes to the new URL; the types and the
// accounts are those of events from now on. While an endpoint is paused its deliveries wait, and
// those of new events too, for [webhook.PausedMost]: they are sent once it goes on. If the URL
// changes the owner gets an e-mail. [ErrEndpointNotFound].
func (s *Service) ChangeEndpoint(ctx context.Context, id, endpoint uuid.UUID, c EndpointChange, by audit.By) (Endpoint, error) {
	if c.URL == nil && c.Events == nil && c.AccountRefs == nil && c.Paused == nil && c.Retries == nil {
		return Endpoint{}, errEndpointEmpty
	}
	if err := s.checkEndpoint(&c); err != nil {
		return Endpoint{}, err
	}
	var e Endpoint
	var email string
	turned := false
	err := s.lockingEndpoint(ctx, id, endpoint, func(tx pg.Tx, now time.Time, t locked, was Endpoint) (err error) {
		if email, turned = t.Email, c.URL != nil && *c.URL != was.URL; !turned {
			c.URL = nil
		}
		if err := checkTarget(ctx, tx, id, c); err != nil {
			return err
		}
		e = was.with(c, now)
		if equalEndpoints(e, was) {
			return nil
		}
		e, err = pg.One(ctx, tx, readEndpoint, ErrEndpointNotFound, `
			UPDATE webhook_endpoints SET url = $3, events = $4, account_refs = $5, paused_at = $6, retries = $7, updated_at = $1 WHERE id = $2 RETURNING `+endpointColumns,
			now, endpoint, e.URL, e.Events, e.AccountRefs, e.PausedAt, e.Retries)
		if err != nil {
			return endpointRefusal(err)
		}
		if e.PausedAt == nil {
			s.sendWaiting(tx, now, id, was)
		}
		change := audit.Change{Before: shownEndpoint(was), After: shownEndpoint(e)}
		return audit.Write(ctx, tx, now, by.Entry("webhook.endpoint.change", "webhook_endpoint:"+endpoint.String(), change).Of(id))
	})
	if err == nil && turned {
		s.mails.send(endpointEmail(email, safehttp.Shown(e.URL), by))
	}
	return e, err
}

// RemoveEndpoint ends an endpoint: nothing is sent to it any more. What waits for it becomes a dead
// letter. Its secrets are gone. [ErrEndpointNotFound], also for one that was removed before.
func (s *Service) RemoveEndpoint(ctx context.Context, id, endpoint uuid.UUID, by audit.By) error {
	return s.lockingEndpoint(ctx, id, endpoint, func(tx pg.Tx, now time.Time, _ locked, was Endpoint) error {
		if err := removeEndpoints(ctx, tx, now, id, []uuid.UUID{endpoint}); err != nil {
			return err
		}
		s.sendWaiting(tx, now, id, was)
		return audit.Write(ctx, tx, now, by.Entry("webhook.endpoint.remove", "webhook_endpoint:"+endpoint.String(), shownEndpoint(was)).Of(id))
	})
}

// sendWaiting has what waits for an endpoint that was paused sent after the commit, or ended if the
// endpoint is gone. What is missed is due within a day.
func (s *Service) sendWaiting(tx pg.Tx, now time.Time, tenant uuid.UUID, was Endpoint) {
	if was.PausedAt != nil {
		tx.AfterCommit(func(ctx context.Context) {
			_ = webhook.Resume(ctx, s.Pool, now, tenant, was.ID, *was.PausedAt)
		})
	}
}

// removeEndpoints removes endpoints of a tenant, whose row is locked; nil: those that are paused.
func removeEndpoints(ctx context.Context, tx pg.Tx, now time.Time, tenant uuid.UUID, endpoints []uuid.UUID) error {
	_, err := tx.Exec(ctx, `
		WITH removed AS (
			UPDATE webhook_endpoints SET removed_at = $2, updated_at = $2, secret = NULL, secret_previous = NULL, secret_previous_until = NULL
			WHERE tenant_id = $1 AND removed_at IS NULL AND CASE WHEN $3::uuid[] IS NULL THEN paused_at IS NOT NULL ELSE id = ANY($3) END RETURNING id)
		UPDATE tenants SET webhook_endpoints = webhook_endpoints - (SELECT count(*) FROM removed), updated_at = $2 WHERE id = $1`, tenant, now, endpoints)
	return err
}

// RotateEndpointSecret gives an endpoint a new secret, which is shown only here. The one before
// signs beside it for a day, as the tenant's does. While one does, another rotation is refused
// ([errEndpointRotated]), as the receiver may have that one alone, unless replace is true: then the
// new secret takes the place of the newer one. seen is the endpoint's UpdatedAt as whoever asks has
// read it, zero: any. If it is another by now, somebody may have made a secret that is in use, and
// the rotation is refused ([errEndpointChanged]).
func (s *Service) RotateEndpointSecret(ctx context.Context, id, endpoint uuid.UUID, replace bool, seen time.Time, by audit.By) (Endpoint, secret.Redacted, error) {
	var e Endpoint
	fresh := secret.NewSigningSecret()
	err := s.lockingEndpoint(ctx, id, endpoint, func(tx pg.Tx, now time.Time, _ locked, was Endpoint) (err error) {
		switch {
		case was.PreviousSecretUntil != nil && !replace:
			return errEndpointRotated
		case !seen.IsZero() && !seen.Equal(was.UpdatedAt):
			return errEndpointChanged
		}
		if was.PreviousSecretUntil == nil {
			if err := s.keepEndpointSecret(ctx, tx, now, endpoint); err != nil {
				return err
			}
		}
		e, err = pg.One(ctx, tx, readEndpoint, ErrEndpointNotFound, `
			UPDATE webhook_endpoints SET secret = $3, updated_at = $1 WHERE id = $2 RETURNING `+endpointColumns,
			now, endpoint, s.Box.Seal(endpointSecret(endpoint), []byte(fresh.Reveal())))
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("webhook.endpoint.rotate-secret", "webhook_endpoint:"+endpoint.String(), nil).Of(id))
	})
	return e, fresh, err
}

// keepEndpointSecret has the secret of an endpoint sign for another day beside the one that takes
// its place. It is bound to its column, so it is sealed again for the other.
func (s *Service) keepEndpointSecret(ctx context.Context, tx pg.Tx, now time.Time, endpoint uuid.UUID) error {
	var sealed []byte
	if err := tx.QueryRow(ctx, `SELECT secret FROM webhook_endpoints WHERE id = $1`, endpoint).Scan(&sealed); err != nil {
		return err
	}
	plain, err := s.Box.Open(endpointSecret(endpoint), sealed)
	if err != nil {
		return fmt.Errorf("secret of webhook endpoint %s: %w", endpoint, err)
	}
	place := endpointSecret(endpoint)
	place.Column = "secret_previous"
	_, err = tx.Exec(ctx, `UPDATE webhook_endpoints SET secret_previous = $2, secret_previous_until = $3 WHERE id = $1`,
		endpoint, s.Box.Seal(place, plain), now.Add(previousSecretLife))
	return err
}

// lockingEndpoint runs a change of an endpoint as it is, with the tenant's row locked.
// [ErrEndpointNotFound].
func (s *Service) lockingEndpoint(ctx context.Context, id, endpoint uuid.UUID, do func(tx pg.Tx, now time.Time, t locked, was Endpoint) error) error {
	return s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		was, err := pg.One(ctx, tx, readEndpoint, ErrEndpointNotFound, `
			SELECT `+endpointColumns+` FROM webhook_endpoints WHERE id = $2 AND tenant_id = $3 AND removed_at IS NULL`, now, endpoint, id)
		if err != nil {
			return err
		}
		return do(tx, now, t, was)
	})
}

// checkEndpoint checks what can be checked without the database, and puts events and accounts in
// order, each once.
func (s *Service) checkEndpoint(c *EndpointChange) error {
	if c.URL != nil {
		c.URL = new(strings.TrimSpace(*c.URL))
		if *c.URL == "" {
			return errURLMissing
		}
		if err := safehttp.CheckURL("url", *c.URL, s.Callbacks); err != nil {
			return err
		}
	}
	for _, t := range c.Events {
		if !slices.Contains(webhook.Types, t) {
			return webhook.ErrEvents
		}
	}
	if c.Retries != nil && *c.Retries != "standard" && *c.Retries != "day" {
		return errEndpointRetries
	}
	if c.Events != nil {
		if len(c.Events) == 0 {
			return errEndpointEvents
		}
		wanted := c.Events
		c.Events = slices.DeleteFunc(slices.Clone(webhook.Types), func(t webhook.Type) bool { return !slices.Contains(wanted, t) })
	}
	if c.AccountRefs != nil && *c.AccountRefs != nil {
		refs := slices.Clone(*c.AccountRefs)
		for i, ref := range refs {
			if !utf8.ValidString(ref) || strings.ContainsRune(ref, 0) { // no account has it
				return errEndpointAccount
			}
			refs[i] = strings.TrimSpace(ref)
		}
		slices.Sort(refs)
		refs = slices.Compact(refs)
		if len(refs) == 0 || len(refs) > maxEndpointAccounts {
			return errEndpointAccounts
		}
		c.AccountRefs = &refs
	}
	return nil
}

// checkTarget refuses the tenant's own webhook URL, where each event would come twice, and accounts
// that there are not. The URL of another endpoint the table refuses.
func checkTarget(ctx context.Context, tx pg.Tx, id uuid.UUID, c EndpointChange) error {
	if c.URL != nil {
		var same bool
		if err := tx.QueryRow(ctx, `SELECT webhook_url = $2 FROM tenants WHERE id = $1`, id, *c.URL).Scan(&same); err != nil {
			return err
		}
		if same {
			return errEndpointURL
		}
	}
	if c.AccountRefs == nil || *c.AccountRefs == nil {
		return nil
	}
	var found int
	err := tx.QueryRow(ctx, `
		SELECT count(DISTINCT account_ref) FROM accounts WHERE tenant_id = $1 AND account_ref = ANY($2) AND status <> 'provisioning'`, id, *c.AccountRefs).Scan(&found)
	if err == nil && found < len(*c.AccountRefs) {
		err = errEndpointAccount
	}
	return err
}

func endpointRefusal(err error) error {
	if pg.IsUnique(err, "webhook_endpoints_url") {
		return errEndpointURL
	}
	return err
}

func (e Endpoint) with(c EndpointChange, now time.Time) Endpoint {
	if c.URL != nil {
		e.URL = *c.URL
	}
	if c.Events != nil {
		e.Events = c.Events
	}
	if c.AccountRefs != nil {
		e.AccountRefs = *c.AccountRefs
	}
	if c.Retries != nil {
		e.Retries = *c.Retries
	}
	if c.Paused != nil && *c.Paused != (e.PausedAt != nil) {
		if e.PausedAt = nil; *c.Paused {
			e.PausedAt = &now
		}
	}
	return e
}

func equalEndpoints(a, b Endpoint) bool {
	return a.URL == b.URL && slices.Equal(a.Events, b.Events) && slices.Equal(a.AccountRefs, b.AccountRefs) && a.PausedAt == b.PausedAt && a.Retries == b.Retries
}

// endpointShown is what the audit log keeps of an endpoint.
type endpointShown struct {
	URL         string         `json:"url"`
	Events      []webhook.Type `json:"events"`
	AccountRefs []string       `json:"accountRefs"`
	Retries     string         `json:"retries"`
	Paused      bool           `json:"paused"`
}

func shownEndpoint(e Endpoint) endpointShown {
	return endpointShown{safehttp.Shown(e.URL), e.Events, e.AccountRefs, e.Retries, e.PausedAt != nil}
}

func endpointSecret(endpoint uuid.UUID) secret.Place {
	return secret.Place{Table: "webhook_endpoints", Column: "secret", Row: endpoint.String()}
}
